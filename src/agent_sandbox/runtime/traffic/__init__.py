"""Search the audit log: filters, totals by host, and other formats. Text in, values out."""
