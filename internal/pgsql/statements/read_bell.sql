-- Whether some forwarder wants to be woken.
SELECT is_called FROM {doorbell}
