// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var silent = slog.New(slog.DiscardHandler)

// made returns the entries of a Secret with certificates for the service.
func made(t *testing.T) map[string][]byte {
	t.Helper()
	c, _, err := chain{}.renewed(time.Now(), []string{service}, Registered{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := c.entries()
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// write puts certificates into a folder as Kubernetes mounts a Secret: links to a folder behind a link.
func write(t *testing.T, dir string, entries map[string][]byte) Files {
	t.Helper()
	version, err := os.MkdirTemp(dir, "..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{entryCA, entryCert, entryKey} {
		if err := os.WriteFile(filepath.Join(version, name), entries[name], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "..tmp")
	if err := os.Symlink(filepath.Base(version), link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	return Files{CA: filepath.Join(dir, entryCA), Cert: filepath.Join(dir, entryCert), Key: filepath.Join(dir, entryKey)}
}

func TestFileSource_mismatchedFiles_keepsThePreviousCertificate(t *testing.T) {
	dir := t.TempDir()
	first := made(t)
	files := write(t, dir, first)
	files.Reload = true
	var log bytes.Buffer
	s := NewFileSource(files, true, slog.New(slog.NewTextHandler(&log, nil)))
	id, err := s.Refresh()
	if err != nil {
		t.Fatal(err)
	}
	half := made(t)
	half[entryKey], half[entryCA] = first[entryKey], nil
	write(t, dir, half)
	again, err := s.Refresh()
	if err != nil || again.Certificate != id.Certificate || string(again.Bundle) != string(first[entryCA]) {
		t.Errorf("served %v, %v", again, err)
	}
	if !strings.Contains(log.String(), "the previous certificates stay in use") {
		t.Error("no warning is logged")
	}
	write(t, dir, made(t))
	if again, err = s.Refresh(); err != nil || again.Certificate == id.Certificate || string(again.Bundle) == string(first[entryCA]) {
		t.Errorf("once they fit: %v", err)
	}
}

func TestFileSource_withoutReload_readsOnce(t *testing.T) {
	dir := t.TempDir()
	s := NewFileSource(write(t, dir, made(t)), false, silent)
	id, err := s.Refresh()
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, made(t))
	if again, err := s.Refresh(); err != nil || again.Certificate != id.Certificate {
		t.Errorf("read again: %v", err)
	}
}
