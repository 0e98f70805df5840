package command

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  outbox version",
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "outbox "+describeBuild())
			return err
		},
	}
}

// describeBuild gives what the compiler noted.
func describeBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	if text == "" {
		text = "(devel)"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" || setting.Key == "vcs.time" {
			text += " " + setting.Value
		}
	}
	return text + " " + info.GoVersion
}
