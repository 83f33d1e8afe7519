"""What tests share: corpora, objectives, networks and backends made for them."""
