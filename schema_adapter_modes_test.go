package outbox_test

import (
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// A message is published, taken and settled, and one released behind it, in every way in which the drivers send statements.
func TestAdaptersWorkInEveryModeOfTheDrivers(t *testing.T) {
	t.Parallel()
	modes := []struct{ driver, parameter, value string }{
		{"postgres", "binary_parameters", "yes"},
		{"postgres", "options", "-c standard_conforming_strings=off"},
		{"pgx", "standard_conforming_strings", "off"},
	}
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		modes = append(modes, struct{ driver, parameter, value string }{"pgx", "default_query_exec_mode", mode})
	}
	schema := outbox.Schema{Name: `it's`, Table: `a \ "b"`}
	for _, mode := range modes {
		t.Run(mode.driver+"/"+mode.parameter+"/"+mode.value, func(t *testing.T) {
			t.Parallel()
			url := testdb.URL(t)
			a := adapted{t: t, pool: testdb.Open(t, url), db: openSQL(t, mode.driver, withParameter(t, url, mode.parameter, mode.value))}
			require.NoError(t, outbox.Migrate(t.Context(), a.pool, schema))
			adapter := outbox.SchemaAdapter{Schema: schema}
			publisher, err := wsql.NewPublisher(a.db, wsql.PublisherConfig{SchemaAdapter: adapter}, nil)
			require.NoError(t, err)
			for _, text := range []string{"head", "behind"} {
				msg := message.NewMessage(text, []byte(text))
				outbox.SetKey(msg, `k\'{},"`)
				require.NoError(t, publisher.Publish("orders", msg))
			}
			require.NoError(t, publisher.Publish("orders", message.NewMessage("1", []byte{0, 0xff}), message.NewMessage("2", nil)))
			execute(t, a.pool, `UPDATE `+schema.String()+` SET holds = true, next_attempt_at = CASE WHEN id = 1 THEN now() ELSE 'infinity' END WHERE id <= 2`)
			messages := a.subscribe(t, "orders", func(c *wsql.SubscriberConfig) {
				c.SchemaAdapter, c.OffsetsAdapter = adapter, outbox.OffsetsAdapter{Schema: schema}
			})
			require.Equal(t, []string{"head", "\x00\xff", "", "behind"}, ack(t, messages, 4))
			eventually(t, "all are settled", func() (none bool) {
				require.NoError(t, a.pool.QueryRow(t.Context(), `SELECT count(*) = 0 FROM `+schema.String()).Scan(&none))
				return none
			})
		})
	}
}
