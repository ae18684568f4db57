"""groupage.activities"""
