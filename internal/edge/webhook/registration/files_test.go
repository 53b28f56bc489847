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

var discardLog = slog.New(slog.DiscardHandler)

// newCertificates returns the entries of a Secret with certificates for the service.
func newCertificates(t *testing.T) map[string][]byte {
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

// writeFiles writes certificates to a folder as Kubernetes mounts a Secret: each file is a link into ..data, which is a link to a folder.
func writeFiles(t *testing.T, dir string, entries map[string][]byte) Files {
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
	first := newCertificates(t)
	files := writeFiles(t, dir, first)
	files.Reload = true
	var log bytes.Buffer
	s := NewFileSource(files, true, slog.New(slog.NewTextHandler(&log, nil)))
	id, err := s.Refresh()
	if err != nil {
		t.Fatal(err)
	}
	mismatched := newCertificates(t)
	mismatched[entryKey] = first[entryKey]
	mismatched[entryCA] = nil
	writeFiles(t, dir, mismatched)
	again, err := s.Refresh()
	if err != nil || again.Certificate != id.Certificate || string(again.Bundle) != string(first[entryCA]) {
		t.Errorf("served %v, %v", again, err)
	}
	if !strings.Contains(log.String(), "the previous certificates stay in use") {
		t.Error("no warning is logged")
	}
	writeFiles(t, dir, newCertificates(t))
	if again, err = s.Refresh(); err != nil || again.Certificate == id.Certificate || string(again.Bundle) == string(first[entryCA]) {
		t.Errorf("after they match again: %v", err)
	}
}

func TestFileSource_withoutReload_readsOnce(t *testing.T) {
	dir := t.TempDir()
	s := NewFileSource(writeFiles(t, dir, newCertificates(t)), false, discardLog)
	id, err := s.Refresh()
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, newCertificates(t))
	if again, err := s.Refresh(); err != nil || again.Certificate != id.Certificate {
		t.Errorf("the second call read the files again: %v", err)
	}
}
