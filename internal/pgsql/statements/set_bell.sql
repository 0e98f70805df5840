-- Says ($1) that a forwarder sleeps and wants to be woken. Not transactional, visible to writers at once.
SELECT setval({doorbell_literal}, 1, $1::bool)
