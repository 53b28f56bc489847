// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"podfit.dev/podfit/test/kubetest"
)

// runsMain is an environment variable that makes the test binary podfit itself.
const runsMain = "PODFIT_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runsMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Ctrl-C while usage is read ends "podfit recommend" with a report of what was read, and exit code 3. A second Ctrl-C would end it at once.
func TestMain_interruptDuringRecommend_printsReportAndExitsWith3(t *testing.T) {
	api := kubetest.NewFakeAPI(t)
	api.ApplyShop()
	api.Reply("GET /apis/metrics.k8s.io/v1beta1/pods", http.StatusOK, fmt.Sprintf(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"namespace":"shop","name":"web-1-0"},"timestamp":%q,"window":"30s","containers":[{"name":"app","usage":{"cpu":"100m","memory":"100Mi"}}]}]}`,
		time.Now().UTC().Format(time.RFC3339)))
	read := make(chan struct{})
	once := sync.OnceFunc(func() { close(read) })
	api.Handle(func(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
		api.Answer(w, r)
		if strings.HasPrefix(q.Path, "/apis/metrics.k8s.io/v1beta1/pods") {
			once()
		}
		return true
	})
	config := kubetest.Kubeconfig(t, api.URL())
	var out, errs bytes.Buffer
	podfit := exec.CommandContext(t.Context(), os.Args[0], "recommend", "--kubeconfig="+config, "--source=metrics", "--for=30m")
	podfit.Env = append(os.Environ(), runsMain+"=1")
	podfit.Stdout, podfit.Stderr = &out, &errs
	if err := podfit.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-read:
	case <-time.After(30 * time.Second):
		t.Error("podfit does not read the usage")
	}
	if err := podfit.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := podfit.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("podfit ended with %v, want exit code 3; its error output is %s", err, errs.String())
	}
	if report := out.String(); !strings.Contains(report, "shop/deploy/web") || !strings.Contains(report, "interrupted") {
		t.Errorf("the report is\n%s", report)
	}
}
