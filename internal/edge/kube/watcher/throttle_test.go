// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// After 429 or 503 with Retry-After, no status of any VPA is written before that time.
func TestWriteConditions_serverIsOverloaded_nothingIsSentBeforeRetryAfter(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			f := kubetest.NewLocalAPI(t)
			for i := range 4 {
				f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web-%d","uid":"v%d","generation":1},
					"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"status":{}}`, i, i))
			}
			server := &kubetest.Overloaded{Handler: f, Code: code, RetryAfter: "7", Start: time.Now()}
			clients, err := kube.ClientsFor(kubetest.LocalConfig(server))
			if err != nil {
				t.Fatal(err)
			}
			w := NewWorld(clients, Options{})
			ctx, cancel := context.WithCancel(t.Context())
			w.Start(ctx)
			defer w.Wait()
			defer cancel()
			if err := w.WaitSynced(ctx); err != nil {
				t.Fatal(err)
			}
			server.Start = time.Now()
			write := func(i int, within time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				_, err := w.WriteConditions(ctx, w.Snapshot().Autoscalers[i], time.Now(), Condition{Type: "Updating", Status: True, Reason: "R"})
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
