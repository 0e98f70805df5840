// Package reach knows the errors of connections, which all drivers share.
package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Failed says whether an error is one of the connection and not of what was sent over it: nobody can publish then. Those of TLS
// are among them, that of a certificate that has expired for instance, and the end of a context: the answer came too late.
func Failed(err error) bool {
	for _, target := range []error{
		broker.ErrClosed, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	var (
		network     net.Error
		certificate *tls.CertificateVerificationError
		noTLS       tls.RecordHeaderError
		alert       tls.AlertError
	)
	return errors.As(err, &network) || errors.As(err, &certificate) || errors.As(err, &noTLS) || errors.As(err, &alert)
}
