DROP TABLE {inbox};
DROP TABLE {dead};
DROP TABLE {outbox};
DROP TABLE {migrations};
DROP FUNCTION {lane_function}();
