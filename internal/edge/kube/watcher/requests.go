// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	requestsWatchTime  = 5 * time.Minute // after which a watch of ProvisioningRequests ends and another one begins
	requestsRetryLeast = 5 * time.Second // after a watch has failed; each further failure doubles it
	requestsRetryMost  = 5 * time.Minute
)

// requestWatch is the watch of the ProvisioningRequests of podfit. It is open only while the updater waits for one of them. It delivers no
// objects: the updater reads them after a change. The mutex of the World guards it.
type requestWatch struct {
	wanted chan struct{} // buffer of one: the updater waits for a request
	cancel func()        // ends the open watch; nil if there is none
	open   bool
	count  uint64 // changes, and watches that were opened: changes before that are unknown
}

// RequestChanges returns how many changes of ProvisioningRequests were seen, and whether they are watched now.
func (s *nodeSet) RequestChanges() (count uint64, watched bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests.count, s.requests.open
}

// await opens or ends the watch. The mutex is held.
func (r *requestWatch) await(wanted bool) {
	if wanted {
		kube.Signal(r.wanted)
		return
	}
	select {
	case <-r.wanted:
	default:
	}
	if r.cancel != nil {
		r.cancel()
	}
}

// watchRequests watches ProvisioningRequests while the updater waits for one, until ctx ends.
func (s *nodeSet) watchRequests(ctx context.Context) {
	wait := requestsRetryLeast
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.requests.wanted:
		}
		opened, err := s.watchRequestsOnce(ctx)
		switch {
		case opened:
			wait = requestsRetryLeast
		case err != nil && ctx.Err() == nil:
			s.log.Debug("Cannot watch ProvisioningRequests; reading them every 10 seconds instead", slog.Any("error", err))
		}
		if !kube.Sleep(ctx, wait) {
			return
		}
		if !opened {
			wait = min(2*wait, requestsRetryMost)
		}
	}
}

// watchRequestsOnce opens a watch and counts its events until it ends, or the updater does not wait any more.
func (s *nodeSet) watchRequestsOnce(ctx context.Context) (opened bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestsWatchTime+time.Minute)
	defer cancel()
	s.mu.Lock()
	s.requests.cancel = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests.open = false
		s.requests.cancel = nil
		if opened {
			s.urgent.notify() // from now on, they are read every 10 seconds
		}
	}()
	stream, err := s.clients.Core.CoreV1().RESTClient().Get().AbsPath("/apis/autoscaling.x-k8s.io/v1/provisioningrequests").
		Param("watch", "true").Param("labelSelector", projection.PlaceholderLabel+"=true").
		Param("timeoutSeconds", fmt.Sprint(int(requestsWatchTime/time.Second))).SetHeader("Accept", "application/json").MaxRetries(0).Stream(ctx)
	if err != nil {
		return false, fmt.Errorf("watch ProvisioningRequests: %w", err)
	}
	defer stream.Close()
	s.requestsChanged()
	for events := json.NewDecoder(stream); ; {
		var event struct{ Type string }
		if err := events.Decode(&event); err != nil {
			return true, fmt.Errorf("watch ProvisioningRequests: %w", err)
		}
		if event.Type == "ERROR" {
			return true, errors.New("watch ProvisioningRequests: the API server has ended the watch")
		}
		s.requestsChanged()
	}
}

// requestsChanged signals that the ProvisioningRequests have to be read.
func (s *nodeSet) requestsChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.open = true
	s.requests.count++
	s.urgent.notify()
}
