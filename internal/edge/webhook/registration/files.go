// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// Files are the paths of certificate files that an administrator or another tool provides.
type Files struct {
	CA, Cert, Key string
	Reload        bool // if true, read the files again when they change
}

// Exist reports whether the certificate and its key exist. It returns an error if only one of the two exists.
func (f Files) Exist() (bool, error) {
	_, certErr := os.Stat(f.Cert)
	_, keyErr := os.Stat(f.Key)
	switch {
	case certErr == nil && keyErr == nil:
		return true, nil
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist), f.Cert == "" && f.Key == "":
		return false, nil
	}
	return false, fmt.Errorf("find the certificate and the key of the webhook: %w", errors.Join(certErr, keyErr))
}

// A FileSource reads certificates from files.
type FileSource struct {
	files Files
	ca    bool // read the CA: podfit registers the webhook with it
	log   *slog.Logger

	cert, key []byte // contents of the files at the last successful read
	current   Identity
	newCA     bool // the CA has changed and is not registered yet
}

// NewFileSource returns a source. If ca is true, it also reads the CA file.
func NewFileSource(files Files, ca bool, log *slog.Logger) *FileSource {
	return &FileSource{files: files, ca: ca, log: log}
}

// Refresh returns the identity in the files. If the files are invalid, it logs a warning and returns the previous identity.
func (s *FileSource) Refresh() (Identity, error) {
	if s.current.Certificate != nil && !s.files.Reload {
		return s.current, nil
	}
	err := s.readPair()
	if s.ca {
		err = errors.Join(err, s.readCA())
	}
	if s.current.Certificate == nil {
		return Identity{}, err
	}
	if err != nil {
		s.log.Warn("Certificate files are invalid; the previous certificates stay in use", slog.Any("error", err))
	}
	return s.current, nil
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
	if err != nil { // the files may be half written; the next Refresh reads them again
		return fmt.Errorf("read certificate %s: %w", s.files.Cert, err)
	}
	if s.current.Certificate != nil {
		s.log.Info("New certificate found, reloading", slog.String("file", s.files.Cert))
	}
	s.cert = cert
	s.key = key
	s.current.Certificate = &pair
	return nil
}

func (s *FileSource) readCA() error {
	ca, err := os.ReadFile(s.files.CA)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && s.current.Bundle == nil {
			return nil // the API server has to trust the certificate by other means
		}
		return fmt.Errorf("read CA: %w", err)
	}
	if len(ca) == 0 || bytes.Equal(ca, s.current.Bundle) { // an empty file is being written
		return nil
	}
	if s.current.Bundle != nil {
		s.newCA = true
		s.log.Info("New client CA found, reloading and patching webhook", slog.String("file", s.files.CA))
	}
	s.current.Bundle = ca
	return nil
}

// CARegistered reports to the source that the webhook is registered with the current CA.
func (s *FileSource) CARegistered() {
	if s.newCA {
		s.newCA = false
		s.log.Info("Successfully patched webhook with new client CA")
	}
}
