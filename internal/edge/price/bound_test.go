// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package price

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// An endless is a server whose answers begin as those of a Prometheus, and have no end.
type endless struct{ read int }

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader(`{"data":{"result":[`), e)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), Header: http.Header{}, Request: r}, nil
}

func (e *endless) Read(to []byte) (int, error) {
	const series = `{"metric":{"node":"node-0"},"value":[1,"0.03"]},`
	n := copy(to, strings.Repeat(series, len(to)/len(series)+1)[e.read%len(series):])
	e.read += n
	if e.read > 4*maxAnswer {
		return n, io.EOF // the test ends
	}
	return n, nil
}

func TestOpenCost_endlessAnswer_isRefused(t *testing.T) {
	server := &endless{}
	got, err := OpenCost(t.Context(), "http://prometheus", server, []cluster.Node{node("node-0")}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "the answer is not that of a Prometheus") {
		t.Errorf("prices %+v, error %v; want an error", got, err)
	}
	if server.read > maxAnswer {
		t.Errorf("%d bytes are read, want at most %d", server.read, maxAnswer)
	}
}
