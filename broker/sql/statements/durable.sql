-- A commit must be on the disk before the forwarder deletes its row, whatever the role's or the database's default is.
SELECT set_config('synchronous_commit', 'local', true) WHERE current_setting('synchronous_commit') = 'off'
