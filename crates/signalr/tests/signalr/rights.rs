//! Who may use a hub that has a path of its own.

use reqwest::{Client, Method};
use serde_json::json;
use steadfast_core::clock::Clock as _;
use steadfast_signalr::{CLIENTS, client_paths};
use steadfast_wire::jwt;

use crate::hub_stage::{GRANTED, ROOM_PATH, SECRET, Stage, granted};

#[tokio::test]
async fn every_route_below_a_hubs_own_path_asks_for_its_right() {
    assert_eq!(client_paths("/client/"), {
        let [meets, talks, whole] = CLIENTS;
        [meets, talks, whole].map(str::to_owned)
    });
    let stage = Stage::start();
    let client = Client::new();
    let later = stage.clock.now().0 / 1000 + 600;
    for path in client_paths(ROOM_PATH) {
        let method = if path.ends_with("negotiate") {
            Method::POST
        } else {
            Method::GET
        };
        let ask = async |token: Option<String>| {
            let url = format!("{}{path}", stage.url());
            let mut request = client.request(method.clone(), url);
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            request.send().await.unwrap().status().as_u16()
        };
        let token = |audience: &str, exp: i64, secret: &str| {
            let claims = json!({"aud": format!("http://127.0.0.1{audience}"), "exp": exp});
            Some(jwt::token(claims.as_object().unwrap(), secret))
        };
        let own = [ROOM_PATH, "/client/?hub=room"];
        assert_eq!(ask(None).await, 401, "{path}");
        assert_eq!(ask(Some("wrong".to_owned())).await, 401, "{path}");
        for audience in own {
            for (name, right) in GRANTED {
                let may = ["listen", "manage"].contains(&name);
                let status = ask(token(audience, later, &granted(name))).await;
                assert_eq!(status == 403, !may, "{path}: {right}: {status}");
                assert_ne!(status, 401, "{path}: {right}");
            }
            let past = ask(token(audience, 1_000_000_000, SECRET)).await;
            assert_eq!(past, 401, "{path}: expired");
            let wrong = ask(token(audience, later, "no key of this server")).await;
            assert_eq!(wrong, 401, "{path}: wrong");
        }
        for audience in ["/client/?hub=other", "/server/?hub=room", "/rooms", "/open"] {
            let stray = ask(token(audience, later, SECRET)).await;
            assert_eq!(stray, 403, "{path}: {audience}");
        }
    }
}
