// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// own is what only the common style may have: colours, and what follows light and dark.
var own = regexp.MustCompile(`:root|prefers-color-scheme|#[0-9a-fA-F]{3,8}\b|\brgba?\(`)

// inline is what no template may have, because no content security policy allows it.
var inline = regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<script[^>]*>[^<]`)

// The web page, backtest, recommend, explain and capacity have one source of colours, and none has inline styles or scripts. There is one library of
// charts.
func TestStyle_pageAndReports_haveOneSource(t *testing.T) {
	var styles, templates, charts int
	count := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "testdata") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case strings.Contains(path, "uplot"):
			if strings.HasSuffix(path, ".js") {
				charts++
			}
		case strings.HasSuffix(path, ".css"):
			styles++
			if found := own.FindString(string(text)); found != "" {
				t.Errorf("%s has %q, which belongs to look.css", path, found)
			}
		case strings.HasSuffix(path, ".html"):
			templates++
			if found := inline.FindString(string(text)); found != "" {
				t.Errorf("%s has %q", path, found)
			}
		}
		return nil
	}
	err := errors.Join(filepath.WalkDir(filepath.Join("..", "edge"), count), filepath.WalkDir("page", count))
	if err != nil || styles != 2 || templates < 9 || charts != 1 {
		t.Errorf("%d styles, %d templates, %d libraries of charts, error %v", styles, templates, charts, err)
	}
}

func TestPolicy_style_isAllowedByItsHash(t *testing.T) {
	style := Style(".x { color: red; }")
	sum := sha256.Sum256([]byte(style))
	if got := Policy(style); !strings.HasPrefix(got, "default-src 'none';") || !strings.Contains(got, base64.StdEncoding.EncodeToString(sum[:])) || strings.Contains(got, "script") {
		t.Errorf("policy %s", got)
	}
}
