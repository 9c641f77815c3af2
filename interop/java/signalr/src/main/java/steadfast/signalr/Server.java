package steadfast.signalr;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.microsoft.signalr.HttpHubConnectionBuilder;
import com.microsoft.signalr.HubConnectionBuilder;
import com.microsoft.signalr.TransportEnum;
import io.reactivex.rxjava3.core.Single;

/** The server that the scenarios talk to. */
final class Server {
    private final JsonObject said;

    Server(String said) {
        this.said = JsonParser.parseString(said).getAsJsonObject();
    }

    String said(String name) {
        return said.get(name).getAsString();
    }

    /** A client of the hub `room`. */
    HttpHubConnectionBuilder room(TransportEnum transport) {
        return hub(said("url"), "room&colour=blue", said("token")).withTransport(transport);
    }

    /** The same at another node, if there is one. */
    HttpHubConnectionBuilder elsewhere(TransportEnum transport) {
        return hub(said("other"), "room&colour=blue", said("token")).withTransport(transport);
    }

    HttpHubConnectionBuilder hub(String url, String hub, String token) {
        return HubConnectionBuilder.create(url + "/client/?hub=" + hub)
            .withAccessTokenProvider(Single.just(token));
    }
}
