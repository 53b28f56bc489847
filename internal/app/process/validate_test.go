// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// errorOf parses flags into a configuration and validates it.
func errorOf(t *testing.T, c Settings, flags string) string {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetNormalizeFunc(Dashes)
	c.Flags(fs)
	if err := fs.Parse(strings.Fields(flags)); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

// Each flag is tested with the last value that is valid, and the first that is not.
func TestConfig_flagsAtTheirLimits_areAcceptedOrRejected(t *testing.T) {
	for flags, want := range map[string]string{ // the error; "" if the flags are valid
		"--vpa-object-namespace=a":                                    "",
		"--ignored-vpa-object-namespaces=b":                           "",
		"--vpa-object-namespace=a --ignored-vpa-object-namespaces=":   "",
		"--vpa-object-namespace=a --ignored-vpa-object-namespaces=,b": "--vpa-object-namespace and --ignored-vpa-object-namespaces cannot both be set",
		"--kube-api-burst=0":                                          "",
		"--kube-api-burst=-1":                                         "--kube-api-burst must be at least 0, got -1",
		"--kube-api-qps=-1":                                           "",
		"--kube-api-qps=NaN":                                          "--kube-api-qps must be a number, got NaN",
	} {
		c := CommonDefaults()
		if got := errorOf(t, &c, flags); got != want {
			t.Errorf("%s: error %q, want %q", flags, got, want)
		}
	}
	for flags, want := range map[string]string{
		"--leader-elect": "",
		"--leader-elect --leader-elect-lease-duration=1s --leader-elect-renew-deadline=999ms --leader-elect-retry-period=998ms": "",
		"--leader-elect --leader-elect-lease-duration=10s --leader-elect-renew-deadline=10s":                                    "--leader-elect-lease-duration (10s) must be greater than --leader-elect-renew-deadline (10s)",
		"--leader-elect --leader-elect-retry-period=10s":                                                                        "--leader-elect-renew-deadline (10s) must be greater than --leader-elect-retry-period (10s)",
		"--leader-elect --leader-elect-resource-lock=endpoints":                                                                 `--leader-elect-resource-lock must be leases, got "endpoints"`,
		"--leader-elect-retry-period=10s":                                                                                       "", // without election
	} {
		e := ElectionDefaults("test")
		if got := errorOf(t, &e, flags); got != want {
			t.Errorf("%s: error %q, want %q", flags, got, want)
		}
	}
}

func TestGates_flagIsRepeated_keepsEarlierGates(t *testing.T) {
	c := commonGiven(t, "--feature-gates=InPlace=true", "--feature-gates=PerVPAConfig=true,,")
	if got, want := c.Gates.String(), "InPlace=true,PerVPAConfig=true"; got != want {
		t.Errorf("got gates %q, want %q", got, want)
	}
}

func TestIgnoredNamespaces_emptyItems_areDropped(t *testing.T) {
	c := commonGiven(t, "--ignored-vpa-object-namespaces=, a ,,b,")
	if want := []string{"a", "b"}; !slices.Equal(c.IgnoredNamespaces, want) {
		t.Errorf("got %q, want %q", c.IgnoredNamespaces, want)
	}
}

func TestOwnNamespace_flagAndEnvironment_flagComesFirst(t *testing.T) {
	for _, tt := range []struct{ flag, environment, want string }{
		{"", "", "kube-system"}, {"", "infra", "infra"}, {"vpa", "", "vpa"}, {"vpa", "infra", "vpa"},
	} {
		t.Setenv("NAMESPACE", tt.environment)
		if got := OwnNamespace(tt.flag); got != tt.want {
			t.Errorf("flag %q, environment %q: got %q, want %q", tt.flag, tt.environment, got, tt.want)
		}
	}
}

func TestEnded_contextHasEnded_dropsTheError(t *testing.T) {
	err := errors.New("cannot list pods")
	running, stop := context.WithCancel(t.Context())
	if got := Ended(running, err); !errors.Is(got, err) {
		t.Errorf("got %v, want %v", got, err)
	}
	stop()
	if got := Ended(running, err); got != nil {
		t.Errorf("after the end: got %v, want none", got)
	}
}

// settings is a configuration with an error of its validation.
type settings struct {
	Common
	invalid error
}

func (s *settings) Validate() error { return s.invalid }

func TestCommand_invalidInput_isAUsageErrorBeforeAnyWork(t *testing.T) {
	broken := errors.New("cannot connect")
	for name, tt := range map[string]struct {
		invalid, prepare, work error
		flag, limit, gogc      string
		want                   string // "" if the command succeeds
		usage, prepared        bool
		heap                   int64 // the memory limit of the Go runtime
	}{
		"succeeds":             {prepared: true, heap: math.MaxInt64},
		"with a memory limit":  {limit: "10000000000000", prepared: true, heap: 9_000_000_000_000},
		"GOGC is set":          {gogc: "80", prepared: true, heap: math.MaxInt64},
		"configuration":        {invalid: errors.New("--x must be 1"), want: "--x must be 1", usage: true},
		"log file":             {flag: "--logtostderr=false", want: "log", usage: true},
		"memory limit":         {limit: "100Mi", want: MemoryLimitVariable, usage: true},
		"work cannot be begun": {prepare: broken, want: "cannot connect", prepared: true},
		"work fails":           {work: broken, want: "cannot connect", prepared: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(MemoryLimitVariable, tt.limit)
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv("GOGC", tt.gogc)
			const tested = 80
			before, percent, logger := debug.SetMemoryLimit(math.MaxInt64), debug.SetGCPercent(tested), slog.Default()
			defer func() {
				debug.SetMemoryLimit(before)
				debug.SetGCPercent(percent)
				slog.SetDefault(logger)
			}()
			config := &settings{Common: CommonDefaults(), invalid: tt.invalid}
			prepared := false
			var log bytes.Buffer
			command := LongRunning{
				Use: "test", Config: config, Common: func() *Common { return &config.Common }, Address: func() string { return "127.0.0.1:0" },
				Prepare: func(context.Context, *Process) (func(context.Context) error, error) {
					prepared = true
					return func(context.Context) error { return tt.work }, tt.prepare
				},
			}.Command(Streams{Err: &log})
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetContext(t.Context())
			command.SetArgs(nil)
			if tt.flag != "" {
				command.SetArgs([]string{tt.flag, "--log-file=" + t.TempDir() + "/missing/log"})
			}
			err := command.Execute()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
			if isUsage := errors.As(err, new(UsageError)); isUsage != tt.usage {
				t.Errorf("error %v is a usage error: %t, want %t", err, isUsage, tt.usage)
			}
			if prepared != tt.prepared {
				t.Errorf("the work is prepared: %t, want %t", prepared, tt.prepared)
			}
			if heap := debug.SetMemoryLimit(-1); tt.heap > 0 && heap != tt.heap {
				t.Errorf("the memory limit of the Go runtime is %d, want %d", heap, tt.heap)
			}
			want := gcPercent
			if tt.gogc != "" {
				want = tested
			}
			if got := debug.SetGCPercent(tested); tt.prepared && got != want {
				t.Errorf("the heap may grow by %d %%, want %d", got, want)
			}
		})
	}
}
