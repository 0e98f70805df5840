package brokertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
)

// Authority is a maker of certificates that only the test knows.
type Authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one, and writes its certificate to a file.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{folder: t.TempDir()}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.write(t, "ca", "CERTIFICATE", der)
	return a
}

// Server is the configuration of a server on 127.0.0.1 that wants a certificate of its client's.
func (a *Authority) Server(t testing.TB) *tls.Config {
	t.Helper()
	a.issue(t, "server")
	pair, err := tls.LoadX509KeyPair(a.file("server"), a.file("server-key"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// Parameters are those of a URL with which a client trusts the authority, and is trusted.
func (a *Authority) Parameters(t testing.TB) string {
	t.Helper()
	a.issue(t, "client")
	return "tls_ca=" + a.file("ca") + "&tls_cert=" + a.file("client") + "&tls_key=" + a.file("client-key")
}

func (a *Authority) file(name string) string { return filepath.Join(a.folder, name+".pem") }

func (a *Authority) write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// issue makes a certificate, in files.
func (a *Authority) issue(t testing.TB, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	a.write(t, name, "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	a.write(t, name+"-key", "PRIVATE KEY", der)
}

// TLSProxy speaks TLS in front of a server that does not, and gives its own address.
func TLSProxy(t testing.TB, config *tls.Config, backend string) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			front, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			back, err := new(net.Dialer).DialContext(t.Context(), "tcp", backend)
			if err != nil {
				_ = front.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{front, back}, {back, front}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// SpeaksTLS publishes and consumes at a server whose certificate is the authority's, and wants an outage where the authority
// is not trusted. The URL has no parameters; those that the driver needs besides are given with a leading &.
func SpeaksTLS(t *testing.T, driver broker.Driver, url string, a *Authority, parameters string) {
	t.Helper()
	b := Open(t, driver, url+"?"+a.Parameters(t)+parameters, "g")
	require.NoError(t, b.Ping(t.Context()))
	require.NoError(t, PublishBatch(t, b, Outgoing("tls", "k", "1"))[0])
	require.Equal(t, []string{"1"}, ReceiveAll(t, Messages(t, b, "tls"), 1))

	stranger := Open(t, driver, url, "g")
	err := stranger.Ping(t.Context())
	require.ErrorContains(t, err, "certificate signed by unknown authority")
	require.Equal(t, outbox.FailureOutage, stranger.Classify(err))
}
