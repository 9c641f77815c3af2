//! A node that reaches the database, and is not reached.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::{Method, StatusCode};
use serde_json::json;
use steadfast_harness::{FaultProxy, reserve_port};

use crate::nodes::{
    self, Caller, Over, PARTITIONS, get, now, owner, put, settled, standing, steady,
};
use crate::running::{Server, said, until};

/// The state of a node, and how many partitions it has, as another one sees it.
fn state(of: &str, seen_by: &Server) -> (String, usize) {
    let standing = standing(seen_by);
    let nodes = standing["nodes"].as_array().unwrap();
    let found = nodes.iter().find(|node| node["name"] == of).unwrap();
    let partitions = found["partitions"].as_array().unwrap().len();
    (found["state"].as_str().unwrap().to_owned(), partitions)
}

#[test]
fn a_node_that_the_others_do_not_reach_gives_up_what_it_has() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let listens = SocketAddr::from(([127, 0, 0, 1], reserve_port().unwrap()));
    let proxy: FaultProxy = runtime.block_on(FaultProxy::start(listens)).unwrap();
    let database = nodes::database();
    let (a, b) = (
        steady("a", &database).ready(),
        steady("b", &database).ready(),
    );
    let c = steady("c", &database)
        .set(&format!("cluster.port={}", listens.port()))
        .set(&format!("cluster.advertise={}", proxy.address()))
        .ready();
    settled(&a, 3);
    for number in 0..PARTITIONS {
        let (status, answer) = put(&c, &format!("before{number}"), "k", "v");
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    // From now on it receives nothing; its own messages still reach the others. Clients
    // request its partitions all the time.
    proxy.freeze(true);
    let began = now();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        for number in 0..20 {
            let (caller, is_over) = (Caller::of(&a), &is_over);
            scope.spawn(move || {
                let path = format!("/v1/state/s{number}/texts/k");
                while !is_over.load(Ordering::Relaxed) {
                    caller.ask(Method::GET, &path, None);
                }
            });
        }
        until("everything to be elsewhere", || {
            let is_whole = standing(&a)["idle"].as_array().unwrap().is_empty();
            let is_out = state("c", &a) == ("isolated".to_owned(), 0);
            (is_whole && is_out).then_some(())
        });
    });
    println!("given up and taken after {:?}", began.elapsed());
    // A request to take a partition does not count as being reached.
    let (code, _, error) = said(&c.run(&["cluster", "move", "0", "--to", "c"]));
    assert_ne!(code, 0, "{error}");
    for number in 0..PARTITIONS {
        assert_eq!(get(&b, &format!("before{number}"), "k").1, json!("v"));
    }
    for number in 0..2 * PARTITIONS {
        let service = format!("s{number}");
        // Those who come to the node that is not reached are served, too.
        let (status, answer) = put([&a, &b, &c][number % 3], &service, "k", "v");
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(get(&b, &service, "k").1, json!("v"));
    }
    let log = c.logged("cluster.isolated");
    assert!(!log.contains("cluster.lease_ended"), "{log}");
    let (_, metrics) = a.get("/metrics");
    let missed = "steadfast_cluster_nodes_missed 1";
    assert!(metrics.as_str().unwrap().contains(missed), "{metrics}");
    assert_eq!(state("a", &c).0, "up");
    // It takes its share again when it is reached.
    proxy.freeze(false);
    let standing = settled(&a, 3);
    let own = (0..PARTITIONS as u64).filter(|one| owner(&standing, *one).as_deref() == Some("c"));
    assert_eq!(own.count(), PARTITIONS / 3);
    c.logged("cluster.reached_again");
    let _inside = runtime.enter();
    drop(proxy);
}
