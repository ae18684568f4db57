"""groupage.store"""
