"""Questions about the audit log: which records, totals by host, and other formats. Text in, values out."""
