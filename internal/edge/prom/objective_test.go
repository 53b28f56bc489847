// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestObjective_answers_areBoundedAndOnlyVectorsCount(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	const one = `{"metric":{},"value":[1,"0.5"]}`
	for name, c := range map[string]struct {
		status int
		answer string
		want   string
		err    string // "refused: " before it: an answer, and no error
	}{
		"one value":         {200, `{"status":"success","data":{"resultType":"vector","result":[` + one + `]}}`, "[0.5]", ""},
		"no value":          {200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, "[]", ""},
		"three values":      {200, `{"status":"success","data":{"resultType":"vector","result":[` + one + "," + one + "," + one + `]},"warnings":["results truncated due to limit"]}`, "[0.5 0.5]", ""},
		"NaN":               {200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}}`, "[NaN]", ""},
		"a histogram":       {200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1"}]}]}}`, "[NaN]", ""},
		"a hint":            {200, `{"status":"success","data":{"resultType":"vector","result":[` + one + `]},"warnings":["PromQL warning: x"]}`, "[0.5]", ""},
		"a part is lost":    {200, `{"status":"success","data":{"resultType":"vector","result":[` + one + `]},"warnings":["store down"]}`, "", "may be incomplete: store down"},
		"a matrix":          {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "", "must be a vector, got a matrix"},
		"refused":           {422, `{"status":"error","errorType":"execution","error":"many-to-many matching"}`, "", "refused: execution: many-to-many matching"},
		"out of order":      {503, "", "", "503"},
		"it takes too long": {503, `{"status":"error","errorType":"timeout","error":"query timed out in expression\nevaluation"}`, "", "refused: timeout: query timed out in expression evaluation"},
		"it is starting":    {503, `{"status":"error","errorType":"unavailable","error":"TSDB not ready"}`, "", "TSDB not ready"},
		"it cannot read":    {500, `{"status":"error","errorType":"internal","error":"disk"}`, "", "disk"},
		"a large answer":    {200, `{"status":"success","data":{"resultType":"vector","result":[` + strings.Repeat(one+",", 40000) + one + `]}}`, "[0.5 0.5]", ""},
		"a large series":    {200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"` + strings.Repeat("x", 1<<20) + `"}}]}}`, "", "refused: the answer is too large"},
		"not JSON at all":   {200, "<html>", "", "not as Prometheus"},
	} {
		t.Run(name, func(t *testing.T) {
			var form map[string][]string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				form = r.Form
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.answer)
			}))
			defer s.Close()
			client, err := New(Config{Address: s.URL, NamespaceLabel: "ns", PodLabel: "pod", ContainerLabel: "name", Length: time.Hour, Resolution: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			got, refused, err := client.Objective(t.Context(), "shop", `sum(rate(errors{ns="bank"}[5m])) < 1`, now)
			switch want, isRefused := strings.CutPrefix(c.err, "refused: "); {
			case isRefused:
				if err != nil || refused != want || got != nil {
					t.Errorf("refused %q, error %v, want %q", refused, err, want)
				}
				return
			case refused != "" || (err != nil) != (want != "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "in namespace shop")):
				t.Fatalf("refused %q, error %v, want %q", refused, err, want)
			}
			if err == nil && fmt.Sprint(got) != c.want {
				t.Errorf("values %v", got)
			}
			if q := form["query"][0]; q != `sum(rate(errors{ns="bank",ns="shop"}[5m]))` || form["limit"][0] != "2" || form["timeout"][0] != "5s" || fmt.Sprint(form["lookback_delta"]) != "[300s]" {
				t.Errorf("request %v", form)
			}
		})
	}
	if _, refused, err := (&Client{}).Objective(t.Context(), "shop", "errors", now); err != nil || !strings.Contains(refused, "must be a comparison") {
		t.Errorf("refused %q, error %v", refused, err)
	}
}
