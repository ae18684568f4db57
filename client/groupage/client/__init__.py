"""groupage.client"""
