// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// LogConfig is the configuration of the log. The flags are klog's, because existing manifests use them.
type LogConfig struct {
	Verbosity int    // -v: 5 and higher also logs debug messages
	Format    string // --log-format: text or json
	File      string // --log-file: log to this file, in addition to or instead of standard error
	AlsoErr   bool
	ToErr     bool
	fs        *pflag.FlagSet
}

// LogDefaults returns the defaults: verbosity 4 as upstream's manifests have it, text on standard error.
func LogDefaults() LogConfig { return LogConfig{Verbosity: 4, Format: "text", ToErr: true} }

// klogFlags are klog's other flags with their defaults, by name. They control files and headers of a log format that podfit
// does not use, so podfit accepts them and logs a warning.
var klogFlags = []struct{ name, value, help string }{
	{"add-dir-header", "false", "If true, adds the file directory to the header of the log messages."},
	{"alsologtostderrthreshold", "", "Logs at or above this threshold go to stderr when logging to a file."},
	{"legacy-stderr-threshold-behavior", "true", "If true, stderrthreshold is ignored when logtostderr is set."},
	{"log-backtrace-at", ":0", "When logging hits line file:N, emit a stack trace."},
	{"log-dir", "", "If non-empty, write log files in this directory."},
	{"log-file-max-size", "1800", "Maximum size of a log file in megabytes."},
	{"one-output", "false", "If true, only write logs to their native severity level."},
	{"skip-headers", "false", "If true, avoid header prefixes in the log messages."},
	{"skip-log-headers", "false", "If true, avoid headers when opening log files."},
	{"stderrthreshold", "info", "Logs at or above this threshold go to stderr."},
	{"vmodule", "", "Comma-separated list of pattern=N settings for file-filtered logging."},
}

func (c *LogConfig) given(flag string) bool { return c.fs != nil && c.fs.Changed(flag) }

// Flags binds the configuration to flags, with klog's names.
func (c *LogConfig) Flags(fs *pflag.FlagSet) {
	const noEffect = " Accepted for compatibility; has no effect." // ends the help of flags that are accepted and ignored
	c.fs = fs
	fs.IntVarP(&c.Verbosity, "v", "v", c.Verbosity, "Verbosity of the log. 5 and higher also logs debug messages.")
	fs.StringVar(&c.Format, "log-format", c.Format, "Format of the log: text or json. On a terminal, the default is plain text for people.")
	fs.StringVar(&c.File, "log-file", c.File, "If non-empty, log to this file. Requires --logtostderr=false or --alsologtostderr.")
	fs.BoolVar(&c.AlsoErr, "alsologtostderr", c.AlsoErr, "If true, log to standard error in addition to --log-file.")
	fs.BoolVar(&c.ToErr, "logtostderr", c.ToErr, "If true, log to standard error instead of --log-file.")
	for _, k := range klogFlags {
		fs.String(k.name, k.value, k.help+noEffect)
		Ineffective(fs, k.name)
		if k.value == "true" || k.value == "false" {
			fs.Lookup(k.name).NoOptDefVal = "true"
		}
	}
}

// Open returns the logger, and routes the log of the Kubernetes libraries to it. The closer closes the log file, if there is one. On a
// terminal, the default format is plain text.
func (c *LogConfig) Open(stderr io.Writer, terminal bool) (*slog.Logger, io.Closer, error) {
	out := stderr
	closer := io.Closer(io.NopCloser(nil))
	if c.File != "" && (!c.ToErr || c.AlsoErr) {
		f, err := os.OpenFile(filepath.Clean(c.File), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			return nil, nil, fmt.Errorf("open --log-file: %w", err)
		}
		out, closer = f, f
		if c.AlsoErr {
			out = io.MultiWriter(stderr, f)
		}
	}
	level := slog.LevelInfo
	if c.Verbosity >= 5 {
		level = slog.LevelDebug
	}
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler
	switch c.Format {
	case "text", "":
		if terminal && out == stderr && !c.given("log-format") {
			h = tint.NewTextHandler(out, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""})
			break
		}
		h = slog.NewTextHandler(out, opts)
	case "json":
		h = slog.NewJSONHandler(out, opts)
	default:
		return nil, nil, fmt.Errorf("--log-format must be text or json, got %q", c.Format)
	}
	log := slog.New(h)
	clientGo.to.Store(&h)
	setClientGo()
	for _, k := range klogFlags {
		if c.given(k.name) {
			log.Warn("Klog flag is accepted but has no effect", slog.String("flag", "--"+k.name))
		}
	}
	return log, closer, nil
}

// A clientLog is the handler of the log of client-go: that of the last log that was opened. klog gets it once, because another logger must not be set
// while a request of an earlier command ends.
type clientLog struct{ to atomic.Pointer[slog.Handler] }

var (
	clientGo    clientLog
	setClientGo = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(&clientGo)) })
)

// Enabled implements slog.Handler.
func (c *clientLog) Enabled(ctx context.Context, l slog.Level) bool {
	return (*c.to.Load()).Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (c *clientLog) Handle(ctx context.Context, r slog.Record) error {
	return (*c.to.Load()).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c *clientLog) WithAttrs(attrs []slog.Attr) slog.Handler { return (*c.to.Load()).WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (c *clientLog) WithGroup(name string) slog.Handler { return (*c.to.Load()).WithGroup(name) }
