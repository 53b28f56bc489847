// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package look contains the style sheet that the web page and the HTML reports share: light and dark colours, text, cards and tables. Each
// of them adds its own rules.
package look

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"regexp"
	"strings"
)

//go:embed look.css
var style string

// Style returns the common style followed by an own one, without what only people need to read it.
func Style(own string) string { return compact.Replace(comments.ReplaceAllString(style+own, "")) }

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/|\n\s*`)
	compact  = strings.NewReplacer("; }", "}", " { ", "{", "; ", ";")
)

// Policy returns the content security policy of a file that contains one style and no scripts: it loads nothing, and no other style applies.
func Policy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
