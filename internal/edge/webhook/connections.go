// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

// Bounds on the number of connections. A connection takes about 50 KiB. An API server uses one or two.
const (
	maxConnections      = 500
	maxConnectionsPerIP = 100

	slowRequest = 5 * time.Second // longer than any first request of an API server takes
)

// connections bounds the number of connections. If there are too many, it closes a connection of the address that has the most. The
// candidates, in this order, are: the connection that has been idle longest and has never carried a review, the connection that has
// been idle longest, and the connection with the oldest slow first request. So clients that only hold connections lose them, and the
// API server, which has few connections and uses them, keeps them, even if all clients share one address.
type connections struct {
	mu  sync.Mutex
	all map[net.Conn]*connection
}

// A connection is what is known about an open connection.
type connection struct {
	ip       string
	idle     bool      // no request is in progress
	since    time.Time // when it became idle or the request began; zero while room is made for it
	reviewed bool      // it has carried a review
}

// note records a change of state of a connection. It is the ConnState function of the HTTP server.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew {
		c.add(conn)
		return
	}
	x := c.all[conn]
	switch {
	case x == nil: // it was closed to make room, although the server may not have noticed yet
	case state == http.StateIdle:
		x.idle = true
		x.since = time.Now()
	case state == http.StateActive && x.idle:
		x.idle = false
		x.since = time.Now()
	case state == http.StateClosed, state == http.StateHijacked:
		delete(c.all, conn)
	}
}

func (c *connections) add(conn net.Conn) {
	x := &connection{ip: addressOf(conn)}
	cluster.Put(&c.all, conn, x)
	c.makeRoom(conn)
	x.idle = true // after makeRoom, so that makeRoom does not close it
	x.since = time.Now()
}

func (c *connections) markReviewed(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.all[conn]; x != nil {
		x.reviewed = true
	}
}

// makeRoom closes a connection if there are too many. newest is the connection that was just opened.
func (c *connections) makeRoom(newest net.Conn) {
	byIP := map[string]int{} // number of connections by address
	for _, x := range c.all {
		byIP[x.ip]++
	}
	from := c.all[newest].ip
	if byIP[from] <= maxConnectionsPerIP {
		if len(c.all) <= maxConnections {
			return
		}
		from = c.greatest(byIP, from)
	}
	pressed := len(c.all) > 2*maxConnections
	victim := c.oldest(from, pressed)
	if victim == nil && pressed {
		victim = newest
	}
	if victim != nil {
		delete(c.all, victim)
		closeAbruptly(victim)
	}
}

// greatest returns the address with the most connections. Of several such addresses it returns the one with the connection that has been
// idle longest, so that an attacker with many addresses does not displace a client with one address; the given one if none has such a connection.
func (c *connections) greatest(byIP map[string]int, ip string) string {
	var idleSince time.Time // of the connection of the address that has been idle longest; zero: none
	for _, x := range c.all {
		neverReviewed := x.idle && !x.reviewed
		more := byIP[x.ip] - byIP[ip]
		switch {
		case more > 0:
			ip = x.ip
			idleSince = time.Time{}
			if neverReviewed {
				idleSince = x.since
			}
		case more == 0 && neverReviewed && (idleSince.IsZero() || x.since.Before(idleSince)):
			ip = x.ip
			idleSince = x.since
		}
	}
	return ip
}

// oldest returns the connection of an address to close first, or nil if none may be closed. A connection with a first request in progress may
// be closed if the request is slow, or if pressed is true.
func (c *connections) oldest(ip string, pressed bool) (oldest net.Conn) {
	lowest := notClosed
	for conn, x := range c.all {
		rank := x.rank(pressed)
		if x.ip == ip && (rank < lowest || rank == lowest && rank < notClosed && x.since.Before(c.all[oldest].since)) {
			oldest = conn
			lowest = rank
		}
	}
	return oldest
}

// notClosed is the rank of a connection that may not be closed.
const notClosed = 3

// rank returns the rank of a connection among those of its address that may be closed, the lowest first.
func (x *connection) rank(pressed bool) int {
	switch {
	case x.since.IsZero():
		return notClosed
	case x.idle && !x.reviewed:
		return 0
	case x.idle:
		return 1
	case !x.reviewed && (pressed || time.Since(x.since) >= slowRequest):
		return 2
	}
	return notClosed
}

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

// closeAbruptly closes a connection without a TLS close message, whose sending could take seconds.
func closeAbruptly(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close()
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}
