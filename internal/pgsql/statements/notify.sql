-- What the doorbell's trigger does, for a forwarder that wants to know whether it would hear it.
NOTIFY {channel}
