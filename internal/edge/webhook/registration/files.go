// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// Files is where somebody else keeps the webhook's certificates.
type Files struct {
	CA, Cert, Key string
	Reload        bool // read them again when they change
}

// Exist reports whether there are certificate files. One of the two alone is a mistake worth stopping for.
func (f Files) Exist() (bool, error) {
	_, certErr := os.Stat(f.Cert)
	_, keyErr := os.Stat(f.Key)
	switch {
	case certErr == nil && keyErr == nil:
		return true, nil
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist), f.Cert == "" && f.Key == "":
		return false, nil
	}
	return false, fmt.Errorf("find the webhook's certificate and key: %w", errors.Join(certErr, keyErr))
}

// FileSource reads certificates from files.
type FileSource struct {
	files Files
	ca    bool // the CA matters: the webhook is registered with it
	log   *slog.Logger

	cert, key []byte // as last read
	have      Identity
	newCA     bool // a new CA was found, and is not registered yet
}

// NewFileSource returns a source. If ca is true, it also reads the CA file.
func NewFileSource(files Files, ca bool, log *slog.Logger) *FileSource {
	return &FileSource{files: files, ca: ca, log: log}
}

// refresh returns what to serve with now: what the files hold, or what they held before while they do not fit together.
func (s *FileSource) Refresh() (Identity, error) {
	if s.have.Certificate != nil && !s.files.Reload {
		return s.have, nil
	}
	err := s.readPair()
	if s.ca {
		err = errors.Join(err, s.readCA())
	}
	if s.have.Certificate == nil {
		return Identity{}, err
	}
	if err != nil {
		s.log.Warn("Cannot reload the webhook's certificates; the ones before stay", slog.Any("error", err))
	}
	return s.have, nil
}

func (s *FileSource) readPair() error {
	cert, err := os.ReadFile(s.files.Cert)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	key, err := os.ReadFile(s.files.Key)
	if err != nil {
		return fmt.Errorf("read certificate key: %w", err)
	}
	if bytes.Equal(cert, s.cert) && bytes.Equal(key, s.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // half written, perhaps: the next look will tell
		return fmt.Errorf("read certificate %s: %w", s.files.Cert, err)
	}
	if s.have.Certificate != nil {
		s.log.Info("New certificate found, reloading", slog.String("file", s.files.Cert))
	}
	s.cert, s.key, s.have.Certificate = cert, key, &pair
	return nil
}

func (s *FileSource) readCA() error {
	ca, err := os.ReadFile(s.files.CA)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && s.have.Bundle == nil {
			return nil // the API server trusts the certificate anyway, or nobody's
		}
		return fmt.Errorf("read CA: %w", err)
	}
	if len(ca) == 0 || bytes.Equal(ca, s.have.Bundle) { // empty: it is being written
		return nil
	}
	if s.have.Bundle != nil {
		s.newCA = true
		s.log.Info("New client CA found, reloading and patching webhook", slog.String("file", s.files.CA))
	}
	s.have.Bundle = ca
	return nil
}

// asserted notes that the webhook is registered with the CA.
func (s *FileSource) CARegistered() {
	if s.newCA {
		s.newCA = false
		s.log.Info("Successfully patched webhook with new client CA")
	}
}

// watch tells when something happens in the files' folders, until ctx ends. Kubernetes replaces mounted files by
// turning a symbolic link in the folder, so it is the folders that have to be watched.
func (f Files) Watch(ctx context.Context, changed chan<- struct{}) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch certificate files: %w", err)
	}
	defer func() { _ = w.Close() }()
	for _, name := range []string{f.CA, f.Cert, f.Key} {
		if err := w.Add(filepath.Dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", filepath.Dir(name), err)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Events:
			select {
			case changed <- struct{}{}:
			default: // one look is asked for already
			}
		case err := <-w.Errors:
			return fmt.Errorf("watch certificate files: %w", err)
		}
	}
}
