// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

// After 429 or 503 with Retry-After, no event is sent before that time, and none is lost.
func TestRecorder_serverIsOverloaded_nothingIsSentBeforeRetryAfter(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			server := &kubetest.Overloaded{Handler: kubetest.NewLocalAPI(t), Code: code, RetryAfter: "7", Start: time.Now()}
			clients, err := kube.ClientsFor(kubetest.LocalConfig(server))
			if err != nil {
				t.Fatal(err)
			}
			events := NewRecorder(clients)
			for i := range 3 {
				events.Pod(&cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, UID: fmt.Sprint(i)}, EvictedByVPA, "m")
			}
			time.Sleep(time.Minute)
			events.Stop()
			at := server.Writes()
			if len(at) != 4 || at[1] < 7*time.Second {
				t.Errorf("%d: requests at %v, want four for three events, the second one after 7s", code, at)
			}
		})
	}
}
