"""groupage.emulator"""
