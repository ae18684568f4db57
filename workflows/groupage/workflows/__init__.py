"""groupage.workflows"""
