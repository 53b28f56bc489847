// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

func TestLogConfig_flags_selectDestinationAndLevel(t *testing.T) {
	for name, c := range map[string]struct {
		flags              []string
		stderr, file, deep bool
	}{
		"by default":                       {nil, true, false, false},
		"to a file":                        {[]string{"--logtostderr=false"}, false, true, false},
		"to both":                          {[]string{"--alsologtostderr"}, true, true, false},
		"--logtostderr overrides the file": {[]string{"--logtostderr"}, true, false, false},
		"verbose":                          {[]string{"-v=5"}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			args := c.flags
			if name != "by default" {
				args = append(args, "--log-file="+path)
			}
			var stderr bytes.Buffer
			config := commonGiven(t, args...)
			log, closer, err := config.Log.Open(&stderr, false)
			if err != nil {
				t.Fatal(err)
			}
			log.Info("Something")
			log.Debug("A detail")
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil && c.file {
				t.Fatal(err)
			}
			for where, x := range map[string]struct {
				text string
				want bool
			}{"standard error": {stderr.String(), c.stderr}, "the file": {string(text), c.file}} {
				if got := strings.Contains(x.text, "Something"); got != x.want {
					t.Errorf("%s: got %q", where, x.text)
				}
				if got := strings.Contains(x.text, "A detail"); got != (x.want && c.deep) {
					t.Errorf("%s: got %q", where, x.text)
				}
			}
		})
	}
}

func TestLogConfig_klogFlagsWithoutEffect_logWarning(t *testing.T) {
	var out bytes.Buffer
	c := LogDefaults()
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	fs.SetNormalizeFunc(Dashes)
	c.Flags(fs)
	if err := fs.Parse([]string{"--skip_headers", "--stderrthreshold=error"}); err != nil {
		t.Fatal(err)
	}
	_, closer, err := c.Open(&out, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	for _, name := range []string{"--skip-headers", "--stderrthreshold"} {
		if !strings.Contains(out.String(), "flag="+name) {
			t.Errorf("no warning about %s in %q", name, out.String())
		}
	}
	slog.SetDefault(slog.Default())
}

// klog passes the messages of client-go to the log that was opened last, also with attributes and groups.
func TestLogConfig_opened_clientGoLogsThere(t *testing.T) {
	open := func() *bytes.Buffer {
		var out bytes.Buffer
		c := LogConfig{ToErr: true}
		if _, _, err := c.Open(&out, false); err != nil {
			t.Fatal(err)
		}
		return &out
	}
	first := open()
	klog.Background().Info("One")
	second := open()
	klog.Background().WithName("client").WithValues("pod", "web").Info("Two")
	if text := first.String(); !strings.Contains(text, "One") || strings.Contains(text, "Two") {
		t.Errorf("the first log has %q", text)
	}
	if text := second.String(); strings.Contains(text, "One") || !strings.Contains(text, "Two") || !strings.Contains(text, "pod=web") {
		t.Errorf("the second log has %q", text)
	}
}
