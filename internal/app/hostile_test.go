// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/test/kubetest"
)

const mib = 1 << 20

// TestAdmissionController_hostileLoad_staysWithinMemoryLimit runs the real command, with the memory limit of deploy/, and sends
// it the most expensive requests that are known, together with the reviews of an ordinary cluster. PODFIT_HOSTILE is the duration of the
// load, for example 10m.
func TestAdmissionController_hostileLoad_staysWithinMemoryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the memory of another process is read from /proc")
	}
	const limit = 500 * mib
	last := 15 * time.Second
	if text := os.Getenv("PODFIT_HOSTILE"); text != "" {
		var err error
		if last, err = time.ParseDuration(text); err != nil {
			t.Fatalf("PODFIT_HOSTILE: %v", err)
		}
	}
	victim := startVictim(t, limit)
	load := &load{url: "https://" + victim.address + "/", address: victim.address}
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	load.run(ctx)

	peak := victim.peak(t)
	t.Logf("peak %d MiB after %v; reviews of an ordinary cluster: %d answered, %d not, the slowest after %v; hostile requests: %s",
		peak/mib, last, load.sized.Load(), load.unanswered.Load(), time.Duration(load.slowest.Load()).Round(time.Millisecond), load)
	if peak >= limit {
		t.Errorf("the admission controller used %d MiB, its limit is %d MiB", peak/mib, limit/mib)
	}
	if sized, not := load.sized.Load(), load.unanswered.Load(); sized == 0 || not > sized/100 {
		t.Errorf("reviews of an ordinary cluster: %d were answered, %d were not", sized, not)
	}
	if err := victim.ready(t.Context()); err != nil {
		t.Errorf("after the load it is not ready: %v", err)
	}
}

// A victim is an admission controller that runs as a process of its own.
type victim struct {
	pid              int
	address, metrics string
}

func startVictim(t *testing.T, limit int) *victim {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "podfit")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "podfit.dev/podfit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build podfit: %v\n%s", err, out)
	}
	api := kubetest.NewFakeAPI(t)
	api.ApplyCart()
	kubeconfig := kubetest.Context{User: "u"}.Kubeconfig(t, api.URL())
	v := &victim{address: freeAddress(t), metrics: freeAddress(t)}
	_, port, err := net.SplitHostPort(v.address)
	if err != nil {
		t.Fatal(err)
	}
	var log tail
	cmd := exec.Command(binary, "admission-controller", "--kubeconfig="+kubeconfig, "--port="+port, "--address="+v.metrics, "--register-webhook=false")
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=", "GOMEMLIMIT=", process.MemoryLimitVariable+"="+strconv.Itoa(limit))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("end of its log:\n%s", log.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err = v.ready(t.Context()); err == nil {
			return v
		}
		if time.Now().After(end) {
			t.Fatalf("the admission controller does not become ready: %v\n%s", err, log.String())
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (v *victim) ready(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.metrics+"/readyz", nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(reply.Body)
		return fmt.Errorf("%s: %s", reply.Status, text)
	}
	return nil
}

// peak returns the maximum memory of the process so far.
func (v *victim) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-2<<10):]
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// load sends requests to a victim and counts the results.
type load struct {
	url, address      string
	sized, unanswered atomic.Int64
	slowest           atomic.Int64 // nanoseconds, of the reviews that were answered
	sent              sync.Map     // *atomic.Int64 by kind of request and result
}

func (l *load) String() string {
	var parts []string
	l.sent.Range(func(what, n any) bool {
		parts = append(parts, fmt.Sprintf("%v %d", what, n.(*atomic.Int64).Load()))
		return true
	})
	return strings.Join(parts, ", ")
}

func (l *load) count(what string) {
	n, _ := l.sent.LoadOrStore(what, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// apiServer is the address that sends the reviews of an ordinary cluster. It also sends some of the hostile requests, as if all came
// through network address translation.
const apiServer = "127.0.0.1"

// hostile returns one of the addresses that send the load.
func hostile(i int) string { return fmt.Sprint("127.0.0.", 1+i%8) }

func dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
}

// client returns a client with its own HTTP/2 connections, as the API server uses.
func (l *load) client(from string) *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second, // as in the webhook configuration
		Transport: &http.Transport{
			DialContext: dialer(from).DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
		},
	}
}

// run sends everything at the same time until ctx ends.
func (l *load) run(ctx context.Context) {
	var all sync.WaitGroup
	again := func(do func(i int)) {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				do(i)
			}
		})
	}
	cart := kubetest.PodReview(`{"metadata":{"generateName":"cart-","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart","controller":true}]},
		"spec":{"containers":[{"name":"app","image":"x"}]}}`)
	server := l.client(apiServer)
	l.ordinary(ctx, server, cart) // the API server has been connected for a while
	for range 4 {
		again(func(int) { l.ordinary(ctx, server, cart) })
	}
	one, other := l.client(hostile(0)), l.client(hostile(1))
	for name, body := range l.worst() {
		again(func(int) { l.send(ctx, other, name, body) })
	}
	for worker := range 4 {
		again(func(i int) { l.send(ctx, one, "unique", kubetest.PodReview(kubetest.UniquePod(4*i+worker))) })
	}
	for range 4 {
		again(func(i int) {
			waiting := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"w%d","controller":true}]}}`, i)
			l.send(ctx, one, "owner that never comes", kubetest.PodReview(waiting))
		})
	}
	for worker := range 150 {
		again(func(i int) { l.stall(ctx, hostile(worker), 60_000+(worker%10/9)*(1+i%2)*1_000_000) })
	}
	for worker := range 300 {
		again(func(int) { l.hang(ctx, hostile(worker)) })
	}
	streams := l.client(hostile(2))
	for range 200 {
		again(func(int) { l.stallStream(ctx, streams) })
	}
	all.Wait()
}

// worst returns reviews that take much time or memory to decode.
func (l *load) worst() map[string][]byte {
	const size = 4_500_000
	vpa := func(spec string) []byte {
		return []byte(`{"request":{"uid":"u","namespace":"shop","operation":"CREATE","resource":{"group":"autoscaling.k8s.io","resource":"verticalpodautoscalers"},` +
			`"object":{"spec":` + spec + `}}}`)
	}
	const owner = `"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart","controller":true}]}`
	return map[string][]byte{
		"containers": kubetest.PodReview(`{` + owner + `,"spec":{"containers":[` + strings.Repeat(`{},`, size/3) + `{}]}}`),
		"volumes":    kubetest.PodReview(`{` + owner + `,"spec":{"volumes":[` + strings.Repeat(`{},`, size/3) + `{}]}}`),
		"owners":     kubetest.PodReview(`{"metadata":{"ownerReferences":[` + strings.Repeat(`{},`, size/3) + `{}]}}`),
		"depth":      kubetest.PodReview(`{"spec":` + strings.Repeat(`[`, size)),
		"quantity":   kubetest.PodReview(`{` + owner + `,"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1e-999999999"}}}]}}`),
		"policies":   vpa(`{"resourcePolicy":{"containerPolicies":[` + strings.Repeat(`{},`, size/3) + `{}]}}`),
		"findings":   vpa(`{"resourcePolicy":{"containerPolicies":[` + strings.Repeat(`{},`, 19_000) + `{}]}}`),
		"too large":  blank,
	}
}

func (l *load) ordinary(ctx context.Context, c *http.Client, body []byte) {
	began := time.Now()
	reply, status, err := post(ctx, c, l.url, body)
	if ctx.Err() != nil {
		return
	}
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(reply, &review)
	}
	if err != nil || status != http.StatusOK || review.Response == nil || len(review.Response.Patch) == 0 {
		l.unanswered.Add(1)
		l.count(fmt.Sprintf("ordinary review: %d", status))
	} else {
		l.sized.Add(1)
		took := int64(time.Since(began))
		for was := l.slowest.Load(); took > was && !l.slowest.CompareAndSwap(was, took); was = l.slowest.Load() {
		}
	}
	select { // about fifty pods per second
	case <-ctx.Done():
	case <-time.After(80 * time.Millisecond):
	}
}

func (l *load) send(ctx context.Context, c *http.Client, name string, body []byte) {
	_, status, err := post(ctx, c, l.url, body)
	pause(ctx)
	if err != nil {
		l.count(name + ": failed")
		return
	}
	l.count(fmt.Sprintf("%s: %d", name, status))
}

func post(ctx context.Context, c *http.Client, url string, body []byte) (reply []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := c.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer w.Body.Close()
	reply, err = io.ReadAll(w.Body)
	return reply, w.StatusCode, err
}

// blank reads white space, which a review may contain without limit.
var blank = bytes.Repeat([]byte(" "), 6*mib)

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// stall announces a large review, sends a part of it, and waits for the answer.
func (l *load) stall(ctx context.Context, from string, part int) {
	c, err := (&tls.Dialer{NetDialer: dialer(from), Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		l.count("stalled: not connected")
		pause(ctx)
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4500000\r\n\r\n")
	if err == nil {
		_, err = c.Write(blank[:part])
	}
	if err == nil {
		_, _ = c.Read(make([]byte, 1))
	}
	l.count("stalled")
	pause(ctx)
}

// hang connects and sends nothing.
func (l *load) hang(ctx context.Context, from string) {
	c, err := dialer(from).DialContext(ctx, "tcp", l.address)
	if err != nil {
		l.count("silent: not connected")
		pause(ctx)
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_, _ = c.Read(make([]byte, 1))
	l.count("silent")
	pause(ctx)
}

// stallStream announces a review on a connection with many others, and sends a part of it.
func (l *load) stallStream(ctx context.Context, c *http.Client) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body, more := io.Pipe()
	defer more.Close()
	go func() { _, _ = more.Write(blank[:60_000]) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, body)
	if err != nil {
		return
	}
	r.ContentLength = 4_500_000
	r.Header.Set("Content-Type", "application/json")
	w, err := c.Do(r)
	if err == nil {
		_ = w.Body.Close()
	}
	_ = body.Close()
	l.count("stalled streams")
	pause(ctx)
}
