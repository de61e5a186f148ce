"""Campaigns that try to make tpn crash, hang, lose data or give silently wrong answers: `python -m torture`."""
