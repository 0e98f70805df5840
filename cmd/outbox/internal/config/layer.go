package config

import (
	"slices"
	"strings"

	"github.com/watermill-outbox/watermill-outbox/internal/nearest"
)

// Prefix begins the names of environment variables.
const Prefix = "OUTBOX_"

// FileVariable names the file.
const FileVariable = Prefix + "CONFIG"

// Setting is a value, as it was written.
type Setting struct {
	Text   string
	Origin Origin
}

// Layer is what one source says, by the name of the field.
type Layer map[string]Setting

// fromEnvironment reads the variables. One that nothing is known of is a mistake.
func fromEnvironment(environ []string, wrong *mistakes) Layer {
	layer := Layer{}
	names := []string{FileVariable}
	fields := map[string]string{}
	for _, f := range Fields {
		names = append(names, f.Variable())
		fields[f.Variable()] = f.Name
	}
	environ = slices.Sorted(slices.Values(environ))
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) || name == FileVariable || isServiceLink(name) || isOfTests(name) {
			continue
		}
		field, ok := fields[name]
		if !ok {
			wrong.add(Origin{Name: name}, "", "there is no such variable%s", nearest.Hint(name, names))
			continue
		}
		if text != "" { // a container's way to say that there is none
			layer[field] = Setting{Text: text, Origin: Origin{Name: name}}
		}
	}
	return layer
}

// isServiceLink says whether Kubernetes has set the variable, as it does for a service whose name begins with outbox:
// OUTBOX_SERVICE_HOST, OUTBOX_PORT_8080_TCP_ADDR.
func isServiceLink(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_PORT") ||
		strings.Contains(name, "_SERVICE_PORT") || strings.Contains(name, "_PORT_")
}

// isOfTests says whether the variable is for scripts/services and the tests, as somebody who works on this project has them.
func isOfTests(name string) bool {
	return strings.HasPrefix(name, Prefix+"TEST_") || strings.HasPrefix(name, Prefix+"SERVICES_") || name == Prefix+"SOAK"
}
