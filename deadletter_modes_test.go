package outbox_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

var execModes = map[string]pgx.QueryExecMode{
	"cache_statement": pgx.QueryExecModeCacheStatement, "cache_describe": pgx.QueryExecModeCacheDescribe,
	"describe_exec": pgx.QueryExecModeDescribeExec, "exec": pgx.QueryExecModeExec, "simple_protocol": pgx.QueryExecModeSimpleProtocol,
}

func poolOf(t *testing.T, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	return testdb.Open(t, url, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
}

// oddSettings are what a role or database may have set, and what must not matter.
const oddSettings = "&client_encoding=LATIN1&bytea_output=escape&DateStyle=German,DMY&IntervalStyle=sql_standard&extra_float_digits=-15" +
	"&timezone=Asia/Kathmandu&default_transaction_read_only=on&default_transaction_isolation=serializable&plan_cache_mode=force_generic_plan"

func TestDeadLettersWorkInEveryModeOfTheDriver(t *testing.T) {
	t.Parallel()
	for name, mode := range execModes {
		for settings, parameters := range map[string]string{"plain settings": "", "odd settings": oddSettings} {
			t.Run(name+" with "+settings, func(t *testing.T) {
				t.Parallel()
				w := newWriting(t)
				messages := oddMessages()
				const topic = `orders "\{NULL,'x'} ä日`
				publisher, err := outbox.NewPgxPublisher(w.pool, outbox.PublisherConfig{}, nil)
				require.NoError(t, err)
				require.NoError(t, publisher.Publish(topic, messages...))
				bury(t, w.pool, "true")
				execute(t, w.pool, `UPDATE public.outbox_dead SET last_error = uuid || ' was refused', died_at = died_at - interval '1 hour'`)

				pool := poolOf(t, w.url+parameters, mode)
				letters := list(t, pool, outbox.DeadLetterFilter{Topic: topic, OlderThan: time.Minute, ErrorContains: "was refused", Limit: -1})
				require.Len(t, letters, len(messages))
				for i, l := range letters {
					requireListed(t, topic, messages[i], l)
					require.InDelta(t, time.Hour, l.Age, float64(time.Minute))
					if l.Key != "" {
						require.Equal(t, []int64{l.ID}, ids(list(t, pool, outbox.DeadLetterFilter{Key: l.Key, Limit: -1})), "%q", l.Key)
					}
					require.Contains(t, ids(list(t, pool, outbox.DeadLetterFilter{UUID: l.UUID, ErrorContains: l.UUID, IDs: []int64{l.ID, 77}})), l.ID)
				}
				half := len(letters) / 2
				require.Equal(t, int64(half), requeue(t, pool, outbox.DeadLetterFilter{IDs: ids(letters[:half])}))
				require.Equal(t, int64(1), discard(t, pool, outbox.DeadLetterFilter{UUID: letters[half].UUID, OlderThan: time.Minute}))
				require.Equal(t, int64(len(letters)-half-1), requeue(t, pool, outbox.DeadLetterFilter{Topic: topic, Limit: -1}))
				require.Zero(t, count(t, w.pool, "next_attempt_at = 'infinity'"), "every key was released")
				for i, row := range w.stored(t) {
					if i >= half {
						i++
					}
					row.Due = nil
					requireStored(t, topic, messages[i], row)
				}
			})
		}
	}
}

func requireListed(t *testing.T, topic string, msg *message.Message, l outbox.DeadLetter) {
	t.Helper()
	require.Equal(t, []string{topic, msg.UUID, outbox.Key(msg)}, []string{l.Topic, l.UUID, l.Key})
	require.Equal(t, []byte(msg.Payload), l.Payload, msg.UUID)
	require.Equal(t, msg.Payload == nil, l.Payload == nil, msg.UUID)
	require.Len(t, l.Metadata, len(msg.Metadata), msg.UUID)
	for name, value := range msg.Metadata {
		require.Equal(t, value, l.Metadata[name], "%s: %q", msg.UUID, name)
	}
}
