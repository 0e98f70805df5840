DROP TRIGGER {doorbell_trigger} ON {outbox};
DROP FUNCTION {doorbell_function}();
DROP SEQUENCE {doorbell};
