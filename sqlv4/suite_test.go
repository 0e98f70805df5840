package sqlv4_test

import (
	"testing"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/suitetest"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
	"github.com/watermill-outbox/watermill-outbox/sqlv4"
)

// Watermill's universal suite, over v4's own Publisher and Subscriber on the outbox's table. In full with pgx alone: over
// database/sql v3's, which sends the same statements, is run in full.
func TestUniversalSuite(t *testing.T) {
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			url := testdb.URL(t)
			require.NoError(t, outbox.Migrate(t.Context(), testdb.Open(t, url), outbox.Schema{TopicIndex: true}))
			db := open(t, url, suitetest.Connections)
			suitetest.OverTable(t, name != "pgx", func(t *testing.T) (message.Publisher, suitetest.Subscriber) {
				t.Helper()
				publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: sqlv4.SchemaAdapter{}}, nil)
				require.NoError(t, err)
				subscriber, err := wsql.NewSubscriber(db, wsql.SubscriberConfig{
					SchemaAdapter: sqlv4.SchemaAdapter{}, OffsetsAdapter: sqlv4.OffsetsAdapter{},
					PollInterval: suitetest.Interval, ResendInterval: suitetest.Interval, RetryInterval: suitetest.Interval,
				}, nil)
				require.NoError(t, err)
				return publisher, subscriber
			})
		})
	}
}
