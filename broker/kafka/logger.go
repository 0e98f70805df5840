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
	var cause error
	for i := 0; i+1 < len(keyvals); i += 2 {
		if err, ok := keyvals[i+1].(error); ok && keyvals[i] == "err" {
			cause = err
			continue
		}
		fields[fmt.Sprint(keyvals[i])] = keyvals[i+1]
	}
	switch {
	case level == kgo.LogLevelError && cause != nil:
		l.to.Error("kafka: "+text, cause, fields)
	case level == kgo.LogLevelError, level == kgo.LogLevelWarn:
		if cause != nil {
			fields["err"] = cause
		}
		l.to.Info("kafka: "+text, fields)
	default:
		if cause != nil {
			fields["err"] = cause
		}
		l.to.Debug("kafka: "+text, fields)
	}
}
