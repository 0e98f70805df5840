package kafka

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger passes on what franz-go has to tell. Its own Info tells of each batch that failed; that is debugging here,
// for the forwarder tells of failures by itself.
type clientLogger struct{ to watermill.LoggerAdapter }

// Level is fixed when the client is made.
func (l clientLogger) Level() kgo.LogLevel { return kgo.LogLevelInfo }

// Log translates levels and fields.
func (l clientLogger) Log(level kgo.LogLevel, text string, keyvals ...any) {
	fields := watermill.LogFields{}
	for i := 0; i+1 < len(keyvals); i += 2 {
		fields[fmt.Sprint(keyvals[i])] = keyvals[i+1]
	}
	cause, _ := fields["err"].(error)
	switch {
	case level == kgo.LogLevelError && cause != nil:
		delete(fields, "err")
		l.to.Error("kafka: "+text, cause, fields)
	case level == kgo.LogLevelError, level == kgo.LogLevelWarn:
		l.to.Info("kafka: "+text, fields)
	default:
		l.to.Debug("kafka: "+text, fields)
	}
}
