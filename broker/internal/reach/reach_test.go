package reach_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/reach"
)

func TestFailed(t *testing.T) {
	for _, err := range []error{
		broker.ErrClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		&net.DNSError{Err: "no such host"}, &net.OpError{Op: "dial", Err: errors.New("connection refused")},
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, tls.RecordHeaderError{Msg: "no TLS"}, tls.AlertError(42),
	} {
		require.True(t, reach.Failed(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	for _, err := range []error{nil, errors.New("too large"), os.ErrNotExist} {
		require.False(t, reach.Failed(err), "%v", err)
	}
}
