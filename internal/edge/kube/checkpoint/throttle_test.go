// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// After 429 or 503 with Retry-After, no UpdateState of any workload is written before that time.
func TestStates_serverIsOverloaded_nothingIsSentBeforeRetryAfter(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			server := &kubetest.Overloaded{Handler: kubetest.NewLocalAPI(t), Code: code, RetryAfter: "7", Start: time.Now()}
			clients, err := kube.ClientsFor(kubetest.LocalConfig(server))
			if err != nil {
				t.Fatal(err)
			}
			s := NewStates(clients, StorageOptions{}, "updater-1")
			write := func(i int, within time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				state := ledger.State{Workload: deployment(fmt.Sprint("web-", i)), ActingSince: time.Now()}
				_, err := s.Write(ctx, time.Now(), &state)
				return err
			}
			first := make(chan error, 1)
			go func() { first <- write(0, time.Minute) }()
			synctest.Wait()
			if err := write(1, 5*time.Second); !errors.Is(err, kube.ErrNotSent) || time.Since(server.Start) > 0 {
				t.Errorf("%d: a write with too little time has the error %v after %v, want ErrNotSent at once", code, err, time.Since(server.Start))
			}
			for i := range 2 {
				if err := write(2+i, time.Minute); err != nil {
					t.Errorf("%d: %v", code, err)
				}
			}
			if err := <-first; err != nil {
				t.Errorf("%d: the refused write is not repeated: %v", code, err)
			}
			at := server.Writes()
			if len(at) != 4 || at[1] != 7*time.Second {
				t.Errorf("%d: writes at %v, want four, the second one after 7s", code, at)
			}
		})
	}
}

// A webhook of one namespace asks for a long pause. The writes for others are held back for a short time only.
func TestStates_answerAsksForALongPause_othersAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &kubetest.Overloaded{Handler: kubetest.NewLocalAPI(t), Code: 429, RetryAfter: "540", Start: time.Now()}
		clients, err := kube.ClientsFor(kubetest.LocalConfig(server))
		if err != nil {
			t.Fatal(err)
		}
		s := NewStates(clients, StorageOptions{}, "updater-1")
		for i, within := range []time.Duration{5 * time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			state := ledger.State{Workload: deployment(fmt.Sprint("web-", i)), ActingSince: time.Now()}
			if _, err := s.Write(ctx, time.Now(), &state); (err == nil) != (i == 1) {
				t.Errorf("write %d: error %v", i, err)
			}
			cancel()
		}
		if at := server.Writes(); len(at) != 2 || at[1] != 30*time.Second {
			t.Errorf("writes at %v, want the second one after 30s", at)
		}
	})
}
