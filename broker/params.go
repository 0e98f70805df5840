package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watermill-outbox/watermill-outbox/internal/nearest"
)

// Params reads the parameters of a URL, each also from the environment, as BROKER_ and its name in capitals. A getter whose
// parameter is missing gives the fallback; what is wrong is kept for Err.
type Params struct {
	url      *URL
	known    map[string]bool
	problems []error
}

// Params begins to read the parameters.
func (u *URL) Params() *Params { return &Params{url: u, known: map[string]bool{}} }

// Err gives everything that is wrong, joined: values that can't be read, and parameters that no getter has asked for.
func (p *Params) Err() error {
	for _, name := range slices.Sorted(maps.Keys(p.url.query)) {
		if !p.known[name] {
			p.refuse(name, "there is no such parameter%s", nearest.Hint(name, slices.Sorted(maps.Keys(p.known))))
		}
	}
	return errors.Join(p.problems...)
}

func (p *Params) refuse(name, reason string, args ...any) {
	p.problems = append(p.problems, &URLError{name, fmt.Sprintf(reason, args...)})
}

func (p *Params) text(name string) (string, bool) {
	p.known[name] = true
	if values := p.url.query[name]; len(values) > 0 {
		if len(values) > 1 {
			p.refuse(name, "it is given %d times", len(values))
		}
		return values[0], true
	}
	return os.LookupEnv("BROKER_" + strings.ToUpper(name))
}

// String gives any text.
func (p *Params) String(name, fallback string) string {
	if text, ok := p.text(name); ok {
		return text
	}
	return fallback
}

// OneOf gives one of the allowed texts.
func (p *Params) OneOf(name, fallback string, allowed ...string) string {
	text, ok := p.text(name)
	if !ok {
		return fallback
	}
	if !slices.Contains(allowed, text) {
		p.refuse(name, "%q must be one of %s", text, strings.Join(allowed, ", "))
	}
	return text
}

// Bool gives true or false.
func (p *Params) Bool(name string, fallback bool) bool {
	return parse(p, name, fallback, "true or false", strconv.ParseBool)
}

// Int gives a number of at least least.
func (p *Params) Int(name string, fallback, least int) int {
	return parse(p, name, fallback, fmt.Sprintf("a whole number of at least %d", least), func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err == nil && n < least {
			err = strconv.ErrRange
		}
		return n, err
	})
}

// Duration gives a positive time.
func (p *Params) Duration(name string, fallback time.Duration) time.Duration {
	return parse(p, name, fallback, "a positive time with its unit, as 500ms or 30s", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d <= 0 {
			err = strconv.ErrRange
		}
		return d, err
	})
}

func parse[T any](p *Params, name string, fallback T, want string, read func(string) (T, error)) T {
	text, ok := p.text(name)
	if !ok {
		return fallback
	}
	value, err := read(text)
	if err != nil {
		p.refuse(name, "%q must be %s", text, want)
		return fallback
	}
	return value
}

// TLS reads the parameters of TLS, and gives nil if it is off:
//
//	tls           true turns it on; so does each of the others, and a scheme whose default is on
//	tls_ca        file with the certificates to trust, instead of the system's
//	tls_cert      file with the client's own certificate
//	tls_key       file with its key
//	tls_insecure  true does not look at the server's certificate: for trying only
func (p *Params) TLS(on bool) *tls.Config {
	ca, cert, key := p.String("tls_ca", ""), p.String("tls_cert", ""), p.String("tls_key", "")
	insecure := p.Bool("tls_insecure", false)
	if !p.Bool("tls", on || ca != "" || cert != "" || key != "" || insecure) {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} //nolint:gosec // only when asked for, by name
	if ca != "" {
		pem, err := os.ReadFile(ca) //nolint:gosec // the operator names the file
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			p.refuse("tls_ca", "%q must be a readable file of certificates in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			p.refuse("tls_cert", "tls_cert and tls_key must be two readable files in PEM that belong together")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
