-- Which database of which cluster this is, whatever the way to it; and whether transactions begin as read only here.
SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
  (SELECT oid FROM pg_database WHERE datname = current_database())),
  current_setting('default_transaction_read_only')::bool
