"""groupage.workers"""
