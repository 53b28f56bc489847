// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package updater

import (
	"bytes"
	"log/slog"
	"strings"
)

// lines collects log records as text.
type lines struct{ text bytes.Buffer }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&l.text, nil)) }

func (l *lines) count(message string) int { return strings.Count(l.text.String(), message) }
