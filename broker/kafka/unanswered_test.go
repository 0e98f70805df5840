package kafka_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// A Kafka takes a batch and does not answer until the caller has given up. What comes of the batch's client afterwards, and
// what becomes of that when it is closed, changes no verdict that was given.
func TestABatchThatIsNotAnsweredInTimeIsAnOutage(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	var silent atomic.Bool
	answer, asked := make(chan struct{}), make(chan struct{}, 100)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if silent.Load() {
			cluster.SleepControl(func() {
				asked <- struct{}{}
				<-answer
			})
		}
		return nil, nil, false
	})
	addr := cluster.ListenAddrs()[0]
	b, topic := open(t, addr, "", ""), newTopic(t, addr, nil)
	require.NoError(t, publishBatch(t, b, outgoing(topic, "", "0"))[0])

	silent.Store(true)
	var batch []outbox.Outgoing
	for i := range 200 {
		batch = append(batch, outgoing(topic, fmt.Sprint("k", i), "1"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	verdicts := b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, batch)
	for range 100 {
		for i, err := range verdicts {
			require.Error(t, err, i)
			require.Equal(t, outbox.FailureOutage, b.Classify(err), "%v", err)
			require.NotContains(t, err.Error(), "client closed")
		}
	}
	silent.Store(false)
	close(answer)
	require.Eventually(t, func() bool { return publishBatch(t, b, outgoing(topic, "", "2"))[0] == nil }, patience, 10*time.Millisecond)
}
