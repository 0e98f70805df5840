package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// Stats counts an outbox's messages by state; each is in one of them.
type Stats struct {
	// Ready to be forwarded, and never tried.
	Ready int64
	// Delayed by their publisher, due or not.
	Delayed int64
	// Retrying: failed, and backing off or due again.
	Retrying int64
	// Parked behind a failed message of their key, or released from there and not yet forwarded.
	Parked int64
	// Dead letters, those that followed their key included.
	Dead int64
	// QuarantinedKeys are the keys with dead letters that hold back what is published with the key.
	QuarantinedKeys int64
	// OldestReadyAge is the longest time that a message could have been forwarded and was not, by the database's clock:
	// since it was written, or since it fell due. Messages that are not due, and parked ones, don't count. 0 = none.
	OldestReadyAge time.Duration
}

// ReadStats counts. It reads the whole outbox and all dead letters: call it now and then, not in a loop.
func ReadStats(ctx context.Context, pool *pgxpool.Pool, schema Schema) (Stats, error) {
	if err := errors.Join(given(ctx, pool), schema.Validate()); err != nil {
		return Stats{}, err
	}
	var s Stats
	var age float64
	err := pgxDatabase{pool}.query(ctx, pgsql.Render(schema.names()).Stats, nil, func(scan func(...any) error) error {
		return scan(&s.Ready, &s.Delayed, &s.Retrying, &s.Parked, &s.Dead, &s.QuarantinedKeys, &age)
	})
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: reading the statistics of %s: %w", schema, withSchemaHint(err))
	}
	s.OldestReadyAge = time.Duration(age * float64(time.Second))
	return s, nil
}

// withSchemaHint makes ErrSchemaVersion of the server's complaint that a table or column is not there, in any driver's words.
func withSchemaHint(err error) error {
	switch sqlState(err) {
	case "3F000", "42P01", "42703": // invalid_schema_name, undefined_table, undefined_column
		return fmt.Errorf("%w: %w", ErrSchemaVersion, err)
	}
	return err
}

// sqlState gives the code of the server's answer, whichever driver brings it; "" if there is none.
func sqlState(err error) string {
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		return answer.SQLState()
	}
	return ""
}
