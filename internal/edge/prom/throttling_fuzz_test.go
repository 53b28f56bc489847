// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"testing"
	"time"
)

func FuzzThrottling_anyAnswer_containersAreNamedAndSorted(f *testing.F) {
	for _, s := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"name":"app","podfit_part":"canaries all"},"value":[1,"5"]},{"metric":{"name":"app","podfit_part":"before throttled"},"value":[1,"NaN"]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"name":"app"},"histogram":[1,{}]}]}}`,
		`{"status":"success","data":{}}`, `{"status":"success","data":null}`, `{"status":"success"}`, "null", "", "<html>",
	} {
		f.Add([]byte(s))
	}
	now := time.Unix(1e9, 0)
	f.Fuzz(func(t *testing.T, answer []byte) {
		c, err := NewWithTransport(config("http://prometheus.invalid"), canned(answer))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Throttling(t.Context(), throttlingOf(now), now)
		if err != nil && len(got) != 0 {
			t.Errorf("%+v and error %v", got, err)
		}
		for i := range got {
			if got[i].Container == "" || i > 0 && got[i].Container <= got[i-1].Container {
				t.Errorf("container %d of %+v", i, got)
			}
		}
	})
}
