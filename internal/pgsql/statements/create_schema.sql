-- Only when it is missing: this needs CREATE on the database, even if it then does nothing.
CREATE SCHEMA {schema}
