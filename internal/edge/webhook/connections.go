// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
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
	mu    sync.Mutex
	total int
	byIP  map[string]*client
}

// A client is the connections of one address. The lists contain net.Conn values, the oldest first.
type client struct {
	states       map[net.Conn]connectionState
	idle         list.List // idle, never carried a review
	idleReviewed list.List // idle, has carried a review
	firstRequest list.List // has a request in progress, never carried a review
}

// A connectionState is the list that contains a connection, and its position in the list.
type connectionState struct {
	list     *list.List // nil while a request is in progress on a connection that has carried a review
	element  *list.Element
	since    time.Time // when the connection was added to the list
	reviewed bool      // the connection has carried a review
}

// note records a change of state of a connection. It is the ConnState function of the HTTP server.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ip := addressOf(conn)
	of := c.byIP[ip]
	switch state {
	case http.StateNew:
		if of == nil {
			of = &client{states: make(map[net.Conn]connectionState)}
			if c.byIP == nil {
				c.byIP = make(map[string]*client)
			}
			c.byIP[ip] = of
		}
		of.states[conn] = connectionState{}
		c.total++
		c.makeRoom(of, conn)
		of.markIdle(conn) // after makeRoom, so that makeRoom does not close it
	case http.StateActive:
		of.markActive(conn)
	case http.StateIdle:
		of.markIdle(conn)
	case http.StateClosed, http.StateHijacked:
		c.forget(conn)
	}
}

func (c *connections) forget(conn net.Conn) {
	ip := addressOf(conn)
	of := c.byIP[ip]
	if !of.has(conn) {
		return
	}
	of.move(conn, nil)
	delete(of.states, conn)
	c.total--
	if len(of.states) == 0 {
		delete(c.byIP, ip)
	}
}

// has reports whether a connection is recorded. A connection that was closed to make room is not, although the server may not have
// noticed yet.
func (o *client) has(conn net.Conn) bool {
	if o == nil {
		return false
	}
	_, ok := o.states[conn]
	return ok
}

// markActive records that a request is in progress.
func (o *client) markActive(conn net.Conn) {
	if !o.has(conn) {
		return
	}
	p := o.states[conn]
	if p.reviewed {
		o.move(conn, nil)
	} else if p.list != &o.firstRequest {
		o.move(conn, &o.firstRequest)
	}
}

// markIdle records that no request is in progress.
func (o *client) markIdle(conn net.Conn) {
	if !o.has(conn) {
		return
	}
	if o.states[conn].reviewed {
		o.move(conn, &o.idleReviewed)
	} else {
		o.move(conn, &o.idle)
	}
}

// move appends a connection to a list, or to none if to is nil, and removes it from its previous list.
func (o *client) move(conn net.Conn, to *list.List) {
	p := o.states[conn]
	if p.list != nil {
		p.list.Remove(p.element)
	}
	p.list = to
	p.element = nil
	p.since = time.Now()
	if to != nil {
		p.element = to.PushBack(conn)
	}
	o.states[conn] = p
}

func (c *connections) markReviewed(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.byIP[addressOf(conn)]
	if !of.has(conn) {
		return
	}
	p := of.states[conn]
	p.reviewed = true
	of.states[conn] = p
	if p.list == &of.firstRequest {
		of.markActive(conn)
	}
}

// makeRoom closes a connection if there are too many. newest is the connection that was just opened by the client.
func (c *connections) makeRoom(of *client, newest net.Conn) {
	if len(of.states) <= maxConnectionsPerIP && c.total <= maxConnections {
		return
	}
	if len(of.states) <= maxConnectionsPerIP {
		of = c.greatest(of)
	}
	victim := of.oldest(c.total > 2*maxConnections)
	if victim == nil && c.total > 2*maxConnections {
		victim = newest
	}
	if victim != nil {
		c.forget(victim)
		closeAbruptly(victim)
	}
}

// greatest returns the client with the most connections. Of several such clients it returns the one with the connection that has been
// idle longest, so that an attacker with many addresses does not displace a client with one address.
func (c *connections) greatest(of *client) *client {
	for _, other := range c.byIP {
		if len(other.states) > len(of.states) || len(other.states) == len(of.states) && other.idleLonger(of) {
			of = other
		}
	}
	return of
}

// idleLonger reports whether a client has a connection that has been idle longer than all connections of another client.
func (o *client) idleLonger(other *client) bool {
	mine := o.idle.Front()
	others := other.idle.Front()
	if mine == nil || others == nil {
		return mine != nil
	}
	return o.states[mine.Value.(net.Conn)].since.Before(other.states[others.Value.(net.Conn)].since)
}

// oldest returns the connection to close first, or nil if none may be closed. A connection with a first request in progress may be
// closed if the request is slow, or if pressed is true.
func (o *client) oldest(pressed bool) net.Conn {
	for _, l := range []*list.List{&o.idle, &o.idleReviewed, &o.firstRequest} {
		e := l.Front()
		if e == nil {
			continue
		}
		conn := e.Value.(net.Conn)
		if l != &o.firstRequest || pressed || time.Since(o.states[conn].since) >= slowRequest {
			return conn
		}
	}
	return nil
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
