"""groupage.cli"""
